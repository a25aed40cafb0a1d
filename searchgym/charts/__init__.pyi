from .figure import Figure as Figure
