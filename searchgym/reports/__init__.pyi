from .curves import mean_curve as mean_curve
from .diagnosis import diagnosis as diagnosis  # internal
from .ladders import figure_of as figure_of
from .ladders import ladder_figure as ladder_figure
from .page import report_of as report_of
from .page import save_curve as save_curve
from .page import save_report as save_report
from .sources import read_run as read_run
from .training import learning_figure as learning_figure
