from .knowledge import Knowledge as Knowledge
from .measures import self_search_agent as self_search_agent
