from jaxator.cli import main

main()
