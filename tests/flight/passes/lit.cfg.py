import lit.formats

config.name = "flight"  # noqa: F821: lit's variables
config.test_format = lit.formats.ShTest(execute_external=False)  # noqa: F821
config.suffixes = [".mlir"]  # noqa: F821
config.test_exec_root = lit_config.params["output"]  # noqa: F821
config.substitutions += [  # noqa: F821
    ("flight-opt", lit_config.params["flight_opt"]),  # noqa: F821
    ("FileCheck", lit_config.params["filecheck"]),  # noqa: F821
]
