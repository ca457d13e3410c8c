(comment) @comment
(string_content) @string
(nowdoc_string) @string

(namespace_definition name: (_) @name) @package
(class_declaration name: (name) @name) @class
(interface_declaration name: (name) @name) @interface
(trait_declaration name: (name) @name) @trait
(enum_declaration name: (name) @name) @enum
(enum_case name: (name) @name) @enum_member
(function_definition name: (name) @name) @function
(method_declaration name: (name) @name) @method
(property_element name: (variable_name (name) @name)) @property
(property_promotion_parameter name: (variable_name (name) @name)) @property
(const_element . (name) @name) @constant
(program (expression_statement (assignment_expression left: (variable_name (name) @name)) @variable))

(namespace_use_declaration) @import

(simple_parameter type: (_) @bind.type name: (variable_name) @bind)
(simple_parameter !type name: (variable_name) @bind)
(property_promotion_parameter type: (_) @bind.type name: (variable_name) @bind.field)
(property_declaration type: (_) @bind.type (property_element name: (variable_name (name) @bind)))
(assignment_expression left: (variable_name) @bind right: (_) @bind.value)
(assignment_expression left: (member_access_expression object: (variable_name)) @bind right: (_) @bind.value)
(catch_clause type: (_) @bind.type name: (variable_name) @bind)
(use_declaration [(name) (qualified_name)] @embeds)
(array_creation_expression
  . (array_element_initializer (class_constant_access_expression . (_) @naming.owner (name) @naming))
  . (array_element_initializer (string (string_content) @naming.member)) .)
(method_declaration return_type: (_) @returns)
(function_definition return_type: (_) @returns)
