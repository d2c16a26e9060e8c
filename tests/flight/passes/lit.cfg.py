# ruff: noqa: F821  (lit gives `config` and `lit_config`)
import lit.formats

config.name = "flight"
config.test_format = lit.formats.ShTest(execute_external=False)
config.suffixes = [".mlir"]
config.test_exec_root = lit_config.params["output"]
config.substitutions += [
    ("flight-opt", lit_config.params["flight_opt"]),
    ("FileCheck", lit_config.params["filecheck"]),
]
