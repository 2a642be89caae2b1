"""The places of attacks: what stands there, who is the victim, and how the test looks from outside."""
