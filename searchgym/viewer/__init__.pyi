from .app import build_app as build_app
from .index import Index as Index
from .query import Filter as Filter
from .query import listing as listing
from .query import tree as tree
from .training import TrainingRun as TrainingRun
