"""The command `prism`: one thin file a command. Nothing imports this layer."""
