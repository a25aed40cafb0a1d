from .audit import verify as verify  # internal
from .build import build_tasks as build_tasks
from .context import Context as Context
from .families import FAMILIES as FAMILIES
from .families import make_family as make_family
from .solver import Solver as Solver
from .wording import Voice as Voice
