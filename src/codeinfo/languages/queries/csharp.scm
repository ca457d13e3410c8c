(comment) @comment
(string_literal_content) @string
(string_content) @string
(raw_string_content) @string
(verbatim_string_literal) @string
(character_literal_content) @string

(namespace_declaration name: (_) @name) @namespace
(file_scoped_namespace_declaration name: (_) @name) @package
(class_declaration name: (identifier) @name) @class
(record_declaration name: (identifier) @name) @class
(struct_declaration name: (identifier) @name) @struct
(interface_declaration name: (identifier) @name) @interface
(enum_declaration name: (identifier) @name) @enum
(enum_member_declaration name: (identifier) @name) @enum_member
(delegate_declaration name: (identifier) @name) @type
(method_declaration name: (identifier) @name) @method
(constructor_declaration name: (identifier) @name) @method
(destructor_declaration name: (identifier) @name) @method
(operator_declaration operator: _ @name) @method
(indexer_declaration "this" @name) @property
(local_function_statement name: (identifier) @name) @function
(property_declaration name: (identifier) @name) @property
(event_declaration name: (identifier) @name) @property
(event_field_declaration (variable_declaration (variable_declarator name: (identifier) @name))) @property
(field_declaration (variable_declaration (variable_declarator name: (identifier) @name))) @field
(record_declaration (parameter_list (parameter name: (identifier) @name) @property))

(using_directive) @import
(attribute name: [(identifier) (qualified_name)] @attribute)

(parameter type: (_) @bind.type name: (identifier) @bind)
(parameter_list type: (_) @bind.type name: (identifier) @bind)
(class_declaration (parameter_list (parameter type: (_) @bind.type name: (identifier) @bind))) @bind.in
(struct_declaration (parameter_list (parameter type: (_) @bind.type name: (identifier) @bind))) @bind.in
(variable_declaration type: (_) @bind.type (variable_declarator name: (identifier) @bind))
(variable_declaration type: (implicit_type) @bind.auto (variable_declarator name: (identifier) @bind (_) @bind.value))
(property_declaration type: (_) @bind.type name: (identifier) @bind)
(foreach_statement type: (_) @bind.type left: (identifier) @bind) @bind.in
(lambda_expression parameters: (implicit_parameter) @bind) @bind.in
(method_declaration returns: (_) @returns)
(foreach_statement type: (implicit_type) left: (identifier) @bind right: (_) @bind.each) @bind.in
(declaration_pattern type: (_) @bind.type name: (identifier) @bind)
(argument "out" (declaration_expression type: (_) @bind.type name: (identifier) @bind))
(catch_declaration type: (_) @bind.type name: (identifier) @bind)
(argument name: (identifier) @key)
(object_creation_expression type: (_) @key.of
  initializer: (initializer_expression (assignment_expression left: (identifier) @key)))
