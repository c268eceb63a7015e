"""How a machine is reached. The only room that talks to the network."""
