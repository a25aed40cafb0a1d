"""A search server: any engine behind every ``/retrieve`` dialect that search-agent code speaks."""
