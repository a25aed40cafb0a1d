from .ladders import figure_of as figure_of
from .ladders import ladder_figure as ladder_figure
from .training import learning_figure as learning_figure
