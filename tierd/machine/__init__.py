"""What the machine is and does: nodes, tiers, what its kernel can do, who else is at work on it."""
