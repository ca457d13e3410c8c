(comment) @comment
(haddock) @comment
(string) @string
(char) @string
(quasiquote_body) @string

(header module: (_) @name) @package
(data_type name: (_) @name) @type
(newtype name: (_) @name) @type
(type_synonym name: (_) @name) @type
(type_family name: (_) @name) @type
(data_family name: (_) @name) @type
(class name: (_) @name) @class
(instance name: (_) @base patterns: (_) @name) @instance
(data_constructor constructor: (_ name: (_) @name)) @constructor
(newtype_constructor name: (_) @name) @constructor
(gadt_constructor name: (_) @name) @constructor
(field name: (field_name (variable) @name)) @field
(signature name: (_) @name) @function
(signature names: (binding_list (variable) @name @function))
(function name: (_) @name) @function
(function (infix operator: (operator) @name)) @function
(bind name: (_) @name) @function

(import) @import
(header exports: (_) @exports)
