(abstract_class_declaration name: (_) @name) @class
(interface_declaration name: (_) @name) @interface
(enum_declaration name: (_) @name) @enum
(enum_body (property_identifier) @name @enum_member)
(enum_assignment name: (_) @name) @enum_member
(type_alias_declaration name: (_) @name) @type
(internal_module name: (_) @name) @namespace
(module name: (_) @name) @namespace
(function_signature name: (_) @name) @function
(method_signature name: (_) @name) @method
(abstract_method_signature name: (_) @name) @method
(public_field_definition name: (_) @name value: [(arrow_function) (function_expression)]) @method
(public_field_definition name: (_) @name) @field
(required_parameter [(accessibility_modifier) "readonly"] pattern: (identifier) @name) @field
(interface_declaration body: (interface_body (property_signature name: (_) @name) @field))

(function_declaration parameters: (formal_parameters (_ pattern: (identifier) @bind type: (type_annotation (_) @bind.type))))
(method_definition parameters: (formal_parameters (_ pattern: (identifier) @bind type: (type_annotation (_) @bind.type))))
(arrow_function parameters: (formal_parameters
  (_ pattern: (identifier) @bind type: (type_annotation (_) @bind.type)))) @bind.in
(function_expression parameters: (formal_parameters
  (_ pattern: (identifier) @bind type: (type_annotation (_) @bind.type)))) @bind.in
(arrow_function parameters: (formal_parameters (_ pattern: (identifier) @bind !type))) @bind.in
(function_expression parameters: (formal_parameters (_ pattern: (identifier) @bind !type))) @bind.in
(function_declaration parameters: (formal_parameters (_ pattern: (identifier) @bind !type)))
(method_definition parameters: (formal_parameters (_ pattern: (identifier) @bind !type)))
(call_expression function: (member_expression) @bind.call arguments: (arguments
  (arrow_function parameters: (formal_parameters . (required_parameter pattern: (identifier) @bind !type))) @bind.in))
(variable_declarator type: (type_annotation (_) @key.of) value: (object (pair key: (property_identifier) @key)))
(variable_declarator type: (type_annotation (_) @key.of) value: (object (shorthand_property_identifier) @key))
(variable_declarator type: (type_annotation (array_type (_) @key.of))
  value: (array (object (pair key: (property_identifier) @key))))
(required_parameter pattern: (rest_pattern (identifier) @bind))
(required_parameter pattern: (object_pattern (shorthand_property_identifier_pattern) @bind)
  type: (type_annotation (_) @bind.part))
(required_parameter pattern: (object_pattern (object_assignment_pattern left: (shorthand_property_identifier_pattern) @bind))
  type: (type_annotation (_) @bind.part))
(required_parameter pattern: (object_pattern (pair_pattern key: (property_identifier) @key)) type: (type_annotation (_) @key.of))
(required_parameter pattern: (object_pattern (shorthand_property_identifier_pattern) @bind) !type)
(variable_declarator type: (type_annotation (generic_type type_arguments: (type_arguments . (_) @bind.part .)))
  value: (arrow_function parameters: (formal_parameters
    . (required_parameter pattern: (object_pattern (shorthand_property_identifier_pattern) @bind) !type))))
(variable_declarator type: (type_annotation (generic_type type_arguments: (type_arguments . (_) @bind.part .)))
  value: (arrow_function parameters: (formal_parameters . (required_parameter
    pattern: (object_pattern (object_assignment_pattern left: (shorthand_property_identifier_pattern) @bind)) !type))))
(required_parameter pattern: (object_pattern (pair_pattern value: (identifier) @bind)))
(required_parameter (accessibility_modifier) pattern: (identifier) @bind.field type: (type_annotation (_) @bind.type))
(required_parameter "readonly" pattern: (identifier) @bind.field type: (type_annotation (_) @bind.type))
(statement_block (lexical_declaration (variable_declarator name: (identifier) @bind !type value: (_) @bind.value))) @bind.in
(program (lexical_declaration (variable_declarator name: (identifier) @bind !type value: (_) @bind.value)))
(program (export_statement (lexical_declaration (variable_declarator name: (identifier) @bind !type value: (_) @bind.value))))
(variable_declaration (variable_declarator name: (identifier) @bind !type value: (_) @bind.value))
(statement_block (lexical_declaration (variable_declarator name: (identifier) @bind type: (type_annotation (_) @bind.type)))) @bind.in
(program (lexical_declaration (variable_declarator name: (identifier) @bind type: (type_annotation (_) @bind.type))))
(program (export_statement (lexical_declaration (variable_declarator name: (identifier) @bind type: (type_annotation (_) @bind.type)))))
(variable_declaration (variable_declarator name: (identifier) @bind type: (type_annotation (_) @bind.type)))
(public_field_definition name: (_) @bind type: (type_annotation (_) @bind.type))
(public_field_definition name: (_) @bind !type value: (_) @bind.value)
(interface_body (property_signature name: (property_identifier) @bind type: (type_annotation (_) @bind.type)))
(function_declaration return_type: (type_annotation (_) @returns))
(function_signature return_type: (type_annotation (_) @returns))
(method_definition return_type: (type_annotation (_) @returns))
(method_signature return_type: (type_annotation (_) @returns))
(abstract_method_signature return_type: (type_annotation (_) @returns))
(variable_declarator value: (arrow_function return_type: (type_annotation (_) @returns)))
(public_field_definition value: (arrow_function return_type: (type_annotation (_) @returns)))
(pair value: (arrow_function return_type: (type_annotation (_) @returns)))
(function_declaration !return_type body: (statement_block (return_statement (_) @returned)))
(method_definition !return_type body: (statement_block (return_statement (_) @returned)))
(variable_declarator value: (arrow_function !return_type body: (_) @returned))
(variable_declarator value: (arrow_function !return_type body: (statement_block (return_statement (_) @returned))))
(public_field_definition value: (arrow_function !return_type body: (_) @returned))
(_ return_type: (type_annotation (_) @key.of)
  body: (statement_block (return_statement (object (pair key: (property_identifier) @key)))))
(_ return_type: (type_annotation (_) @key.of)
  body: (statement_block (return_statement (object (shorthand_property_identifier) @key))))
(interface_declaration (extends_type_clause (generic_type) @embeds))
(type_alias_declaration
  value: [(type_identifier) (nested_type_identifier) (generic_type) (union_type) (intersection_type)] @embeds)
(export_statement "=" (_) @exported)
