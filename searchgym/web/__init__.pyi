from .server import serving as serving
