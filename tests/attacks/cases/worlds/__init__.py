"""Where attacks play: what stands there, who is the victim, and how it is looked at from outside."""
