"""Our coordinator as a broker for real clients: sockets at the edge, everything else a value that frames go into."""
