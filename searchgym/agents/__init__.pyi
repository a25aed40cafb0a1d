from .oracle import OracleAgent as OracleAgent
from .simple import ConstantAgent as ConstantAgent
from .simple import FirstHitAgent as FirstHitAgent
from .simple import FunctionAgent as FunctionAgent
from .simple import State as State
from .simple import make_state as make_state
from .simple import read_state as read_state
