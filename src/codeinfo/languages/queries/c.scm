(comment) @comment
(string_content) @string
(char_literal) @string

(function_definition declarator: (_) @declarator) @function
(declaration declarator: (_) @declarator) @variable
(type_definition declarator: (_) @declarator) @type
(field_declaration declarator: (_) @declarator) @field
(struct_specifier name: (_) @name body: (_)) @struct
(union_specifier name: (_) @name body: (_)) @struct
(enum_specifier name: (_) @name body: (_)) @enum
(enumerator name: (identifier) @name) @enum_member
(preproc_def name: (identifier) @name) @macro
(preproc_function_def name: (identifier) @name) @macro

(preproc_include) @import

(parameter_declaration type: [(type_identifier) (struct_specifier !body)] @bind.type declarator: (identifier) @bind)
(parameter_declaration type: [(type_identifier) (struct_specifier !body)] @bind.type declarator: (pointer_declarator declarator: (identifier) @bind))
(declaration type: [(type_identifier) (struct_specifier !body)] @bind.type declarator: (identifier) @bind)
(declaration type: [(type_identifier) (struct_specifier !body)] @bind.type declarator: (pointer_declarator declarator: (identifier) @bind))
(declaration type: [(type_identifier) (struct_specifier !body)] @bind.type declarator: (init_declarator declarator: (identifier) @bind))
(declaration type: [(type_identifier) (struct_specifier !body)] @bind.type
  declarator: (init_declarator declarator: (pointer_declarator declarator: (identifier) @bind)))
(field_declaration type: [(type_identifier) (struct_specifier !body)] @bind.type declarator: (field_identifier) @bind)
(field_declaration type: [(type_identifier) (struct_specifier !body)] @bind.type declarator: (pointer_declarator declarator: (field_identifier) @bind))
(parameter_declaration type: [(primitive_type) (sized_type_specifier)] declarator: [
  (identifier) @bind (pointer_declarator declarator: (identifier) @bind) (array_declarator declarator: (identifier) @bind)])
(declaration type: [(primitive_type) (sized_type_specifier)] declarator: [
  (identifier) @bind (pointer_declarator declarator: (identifier) @bind) (array_declarator declarator: (identifier) @bind)
  (init_declarator declarator: [(identifier) @bind (pointer_declarator declarator: (identifier) @bind)
    (array_declarator declarator: (identifier) @bind)])])
