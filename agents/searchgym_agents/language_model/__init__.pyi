from .recipe import FinetuneRecipe as FinetuneRecipe
from .run import Taught as Taught
from .run import finish as finish
from .run import rewarded as rewarded
from .run import teach as teach
