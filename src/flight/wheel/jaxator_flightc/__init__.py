"""The executable jaxator-flightc, in the folder `lib` of this package. `jaxator.flight` finds it and needs nothing else from here."""
