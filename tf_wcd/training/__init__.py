"""How models learn: one update, many of them in one compiled call, the kinds of data, what goes wrong and goes on."""
