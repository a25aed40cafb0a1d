from .oracle import OracleAgent as OracleAgent
from .simple import ConstantAgent as ConstantAgent
from .simple import FirstHitAgent as FirstHitAgent
from .simple import FunctionAgent as FunctionAgent
from .state import State as State
from .state import make_state as make_state
from .state import read_state as read_state
