(comment) @comment
(module (expression_statement . (string) @doc .))
(block (expression_statement . (string) @doc .))
(string_content) @string

(class_definition name: (identifier) @name) @class
(function_definition name: (identifier) @name) @function
(type_alias_statement left: (type (identifier) @name)) @type
(assignment left: (identifier) @name) @variable
(assignment left: (pattern_list (identifier) @name)) @variable

(import_statement) @import
(import_from_statement) @import
(future_import_statement) @import

(parameters (identifier) @bind)
(parameters (typed_parameter . (identifier) @bind type: (type) @bind.type))
(parameters (typed_default_parameter name: (identifier) @bind type: (type) @bind.type))
(parameters (default_parameter name: (identifier) @bind))
(parameters (list_splat_pattern (identifier) @bind))
(parameters (dictionary_splat_pattern (identifier) @bind))
(parameters (typed_parameter [(list_splat_pattern (identifier) @bind) (dictionary_splat_pattern (identifier) @bind)]))
(lambda (lambda_parameters (identifier) @bind)) @bind.in
(assignment left: (identifier) @bind !type right: (_) @bind.value)
(assignment left: (identifier) @bind type: (type) @bind.type)
(assignment left: (attribute object: (identifier)) @bind !type right: (_) @bind.value)
(assignment left: (attribute object: (identifier)) @bind type: (type) @bind.type)
(assignment left: [(pattern_list (identifier) @bind) (tuple_pattern (identifier) @bind)])
(for_statement left: (identifier) @bind right: (_) @bind.each)
(for_statement left: [(pattern_list (identifier) @bind) (tuple_pattern (identifier) @bind)])
(list_comprehension (for_in_clause left: (identifier) @bind right: (_) @bind.each)) @bind.in
(set_comprehension (for_in_clause left: (identifier) @bind right: (_) @bind.each)) @bind.in
(dictionary_comprehension (for_in_clause left: (identifier) @bind right: (_) @bind.each)) @bind.in
(generator_expression (for_in_clause left: (identifier) @bind right: (_) @bind.each)) @bind.in
(for_in_clause left: [(pattern_list (identifier) @bind) (tuple_pattern (identifier) @bind)])
(as_pattern (_) @bind.with alias: (as_pattern_target (identifier) @bind))
(as_pattern alias: (as_pattern_target (tuple (identifier) @bind)))
(named_expression name: (identifier) @bind value: (_) @bind.value)
(global_statement (identifier) @global)
(nonlocal_statement (identifier) @global)
(function_definition return_type: (type) @returns)
(function_definition !return_type body: (block (return_statement (_) @returned)))
(decorated_definition (decorator (_) @decorator) definition: (function_definition name: (identifier) @decorated))
(keyword_argument name: (identifier) @key)
(call function: (identifier) @key.of arguments: (argument_list (keyword_argument name: (identifier) @key)))
(type (string (string_content) @quoted))
(type (_ (type_parameter (type (string (string_content) @quoted)))))
(subscript value: [(identifier) @generic (attribute attribute: (identifier) @generic)] . subscript: (string (string_content) @quoted))
(assignment left: (identifier) @listing right: [(list (string (string_content) @listed)) (tuple (string (string_content) @listed))])
(call function: [(identifier) @naming (attribute) @naming]
  arguments: (argument_list . [(identifier) (attribute)] @naming.owner . (string (string_content) @naming.member)))
(call function: (attribute attribute: (identifier) @model)
  arguments: (argument_list . (string (string_content) @naming.owner) . (string (string_content) @naming.member)))
(call function: (attribute attribute: (identifier) @fixtures)
  arguments: (argument_list (string (string_content) @naming.member)))
