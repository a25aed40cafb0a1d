from ..types import Task
from .evidence import mean_defined as mean_defined
from .evidence import ndcg_at as ndcg_at
from .evidence import precision_at as precision_at
from .evidence import recall_at as recall_at
from .evidence import reciprocal_rank as reciprocal_rank
from .metrics import RL as RL
from .ssrl_format import ssrl_format as ssrl_format

SCORING_VERSION: int

def score_answer(task: Task, answer: str) -> dict[str, float]: ...
