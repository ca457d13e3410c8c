(line_comment) @comment
(block_comment) @comment
(string_fragment) @string
(multiline_string_fragment) @string
(character_literal) @string

(package_declaration [(scoped_identifier) (identifier)] @name) @package
(class_declaration name: (identifier) @name) @class
(record_declaration name: (identifier) @name) @class
(interface_declaration name: (identifier) @name) @interface
(annotation_type_declaration name: (identifier) @name) @interface
(annotation_type_element_declaration name: (identifier) @name) @method
(enum_declaration name: (identifier) @name) @enum
(enum_constant name: (identifier) @name) @enum_member
(method_declaration name: (identifier) @name) @method
(constructor_declaration name: (identifier) @name) @method
(compact_constructor_declaration name: (identifier) @name) @method
(field_declaration declarator: (variable_declarator name: (identifier) @name)) @field
(record_declaration parameters: (formal_parameters (formal_parameter name: (identifier) @name) @field))
(constant_declaration declarator: (variable_declarator name: (identifier) @name)) @constant

(import_declaration) @import

(formal_parameter type: (_) @bind.type name: (identifier) @bind)
(local_variable_declaration type: (_) @bind.type declarator: (variable_declarator name: (identifier) @bind))
(local_variable_declaration type: (type_identifier) @bind.auto
  declarator: (variable_declarator name: (identifier) @bind value: (_) @bind.value))
(field_declaration type: (_) @bind.type declarator: (variable_declarator name: (identifier) @bind))
(enhanced_for_statement type: (_) @bind.type name: (identifier) @bind) @bind.in
(resource type: (_) @bind.type name: (identifier) @bind)
(lambda_expression parameters: (identifier) @bind) @bind.in
(lambda_expression parameters: (inferred_parameters (identifier) @bind)) @bind.in
(method_declaration type: (_) @returns)
(instanceof_expression right: (_) @bind.type name: (identifier) @bind)
(catch_formal_parameter (catch_type . (_) @bind.type .) name: (identifier) @bind)
(spread_parameter (_) @bind.type . (variable_declarator name: (identifier) @bind))
