from .build import Entity as Entity
from .build import from_triples as from_triples
from .build import from_world as from_world
from .communities import find_communities as find_communities
from .corpus import kg_corpus as kg_corpus
from .graph import neighbours as neighbours
