"""The leaderboard of stored scores, and the checks that they, and figures on pages, are true."""
