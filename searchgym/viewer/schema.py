"""The tables of an index."""

from __future__ import annotations

VERSION = 2
"""Version of the tables and of what is written into them; another version's index is built anew."""
APPLICATION = 0x53475657
"""``PRAGMA application_id`` ("SGVW")."""
# Ids are never used twice: words of episodes that were removed stay behind and find nothing.
TABLES = """
CREATE TABLE files (
  id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE, kind TEXT NOT NULL, agent TEXT NOT NULL,
  step INTEGER, done INTEGER NOT NULL, mark TEXT NOT NULL, stat TEXT NOT NULL
);
CREATE TABLE broken (file INTEGER NOT NULL, offset INTEGER NOT NULL, told TEXT NOT NULL);
CREATE TABLE episodes (
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  file INTEGER NOT NULL, offset INTEGER NOT NULL, length INTEGER NOT NULL,
  key TEXT NOT NULL, episode TEXT NOT NULL, task TEXT NOT NULL, agent TEXT NOT NULL, step INTEGER,
  family TEXT NOT NULL, hops INTEGER, outcome TEXT NOT NULL, ending TEXT NOT NULL,
  reward REAL, correct REAL, recall REAL, turns INTEGER NOT NULL, searches INTEGER NOT NULL,
  tools TEXT NOT NULL, problems TEXT NOT NULL, parent TEXT, branched INTEGER,
  tokens INTEGER NOT NULL, closed INTEGER NOT NULL, question TEXT NOT NULL, answer TEXT NOT NULL,
  gold TEXT NOT NULL, place INTEGER NOT NULL
);
CREATE TABLE tasks (place INTEGER PRIMARY KEY, task TEXT NOT NULL UNIQUE);
CREATE VIRTUAL TABLE words USING fts5(
  body, content='', detail=none, prefix='1 2 3', tokenize="unicode61 remove_diacritics 2"
);
"""
INDEXES = """
CREATE UNIQUE INDEX IF NOT EXISTS by_key ON episodes (key);
CREATE INDEX IF NOT EXISTS by_task ON episodes (task);
CREATE INDEX IF NOT EXISTS by_place ON episodes (place, closed, agent, step, id);
CREATE INDEX IF NOT EXISTS by_episode ON episodes (episode);
CREATE INDEX IF NOT EXISTS by_parent ON episodes (parent) WHERE parent IS NOT NULL;
CREATE INDEX IF NOT EXISTS by_filters
  ON episodes (
    agent, step, outcome, family, hops, reward, correct, problems, tools, ending, closed
  );
"""
