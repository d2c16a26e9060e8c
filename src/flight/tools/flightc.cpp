#include "src/flight/server/server.h"

int main() { return jaxator::flight::serve(); }
