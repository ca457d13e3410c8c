(raw_string_content) @string

(class_specifier name: (_) @name body: (_)) @class
(namespace_definition name: (_) @name) @namespace
(namespace_alias_definition name: (_) @name) @namespace
(alias_declaration name: (_) @name) @type
(concept_definition name: (_) @name) @concept

(parameter_declaration type: (_) @bind.type declarator: (reference_declarator (identifier) @bind))
(declaration type: (placeholder_type_specifier) @bind.auto declarator: (init_declarator declarator: [
  (identifier) @bind (pointer_declarator declarator: (identifier) @bind) (reference_declarator (identifier) @bind)]
  value: (_) @bind.value))
(compound_statement (declaration type: (_) @bind.type declarator: (function_declarator declarator: (identifier) @bind)))
(parameter_declaration type: [(template_type) (qualified_identifier)] @bind.type declarator: (identifier) @bind)
(parameter_declaration type: [(template_type) (qualified_identifier)] @bind.type declarator: (pointer_declarator declarator: (identifier) @bind))
(declaration type: [(template_type) (qualified_identifier)] @bind.type declarator: (identifier) @bind)
(declaration type: [(template_type) (qualified_identifier)] @bind.type declarator: (pointer_declarator declarator: (identifier) @bind))
(declaration type: [(template_type) (qualified_identifier)] @bind.type declarator: (init_declarator declarator: (identifier) @bind))
(declaration type: [(template_type) (qualified_identifier)] @bind.type
  declarator: (init_declarator declarator: (pointer_declarator declarator: (identifier) @bind)))
(field_declaration type: [(template_type) (qualified_identifier)] @bind.type declarator: (field_identifier) @bind)
(field_declaration type: [(template_type) (qualified_identifier)] @bind.type declarator: (pointer_declarator declarator: (field_identifier) @bind))
(function_definition type: [(type_identifier) (template_type) (qualified_identifier)] @returns)
(parameter_declaration type: [(primitive_type) (sized_type_specifier)] declarator: (reference_declarator (identifier) @bind))
(optional_parameter_declaration type: (_) @bind.type declarator: [
  (identifier) @bind (pointer_declarator declarator: (identifier) @bind) (reference_declarator (identifier) @bind)])
(for_range_loop declarator: [(identifier) @bind (reference_declarator (identifier) @bind)]) @bind.in
(function_definition !type declarator: (function_declarator declarator: (identifier) @test
  parameters: (parameter_list (_) . (parameter_declaration type: (type_identifier) @key !declarator) .)))
