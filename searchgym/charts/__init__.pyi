from .figure import Figure as Figure
from .figure import to_csv as to_csv
from .forest import forest as forest
from .palette import SCHEMES as SCHEMES
from .panels import multiples as multiples
from .planes import steps as steps  # internal
