from .main import build as build
from .main import run as run
from .output import progress as progress
from .output import working as working
