(raw_string_content) @string

(class_specifier name: (_) @name body: (_)) @class
(namespace_definition name: (_) @name) @namespace
(namespace_alias_definition name: (_) @name) @namespace
(alias_declaration name: (_) @name) @type
(concept_definition name: (_) @name) @concept

(parameter_declaration type: (_) @bind.type declarator: (reference_declarator (identifier) @bind))
(declaration type: (placeholder_type_specifier) @bind.auto
  declarator: (init_declarator declarator: (identifier) @bind value: (_) @bind.value))
(function_definition type: (type_identifier) @returns)
