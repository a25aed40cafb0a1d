from .analysis import LUCENE_STOPWORDS as LUCENE_STOPWORDS  # internal
from .bm25 import BM25Engine as BM25Engine  # internal
from .dense.build import build_dense as build_dense  # internal
from .dense.encoder import SentenceEncoder as SentenceEncoder  # internal
from .dense.engine import make as make  # internal
from .folders import FolderIndex as FolderIndex  # internal
from .graph.index import graph_index as graph_index  # internal
from .on_disk.build import build as build  # internal
from .on_disk.engine import DiskBM25Engine as DiskBM25Engine  # internal
from .on_disk.files import ABOUT as ABOUT  # internal
from .registry import ENGINES as ENGINES
from .registry import OPEN as OPEN  # internal
from .registry import build_engine as build_engine
from .remote.engine import RemoteEngine as RemoteEngine  # internal
from .remote.formats import passage_of as passage_of  # internal
from .searcher import Searcher as Searcher  # internal
from .simulated.data import measure as measure  # internal
from .simulated.data import simulator_pairs as simulator_pairs  # internal
from .simulated.engine import SimulatedEngine as SimulatedEngine  # internal
from .simulated.engine import is_noisy as is_noisy  # internal
from .simulated.prompts import STYLES as STYLES  # internal
from .simulated.prompts import Role as Role  # internal
