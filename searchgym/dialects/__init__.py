"""How text becomes actions and results become text: one module per wire format."""
