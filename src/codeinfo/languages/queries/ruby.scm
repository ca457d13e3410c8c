(comment) @comment
(string_content) @string
(heredoc_content) @string
(bare_symbol (string_content) @quoted)

(module name: (_) @name) @module
(class name: (_) @name) @class
(method name: (_) @name) @method
(singleton_method name: (_) @name) @method
(assignment left: [(constant) (scope_resolution)] @name) @constant
(alias name: (_) @name) @method
(assignment left: (left_assignment_list (constant) @name)) @constant
((call method: (identifier) @keyword arguments: (argument_list (simple_symbol) @name)) @property
  (#not-match? @property "^(delegate\\b[^#]*\\bprefix:|scope :\\w+ do)"))

(method_parameters (identifier) @bind)
(method_parameters (optional_parameter name: (identifier) @bind))
(method_parameters (keyword_parameter name: (identifier) @bind))
(block (block_parameters (identifier) @bind)) @bind.in
(do_block (block_parameters (identifier) @bind)) @bind.in
(assignment left: [(identifier) (instance_variable)] @bind right: (_) @bind.value)
(body_statement (call !receiver method: (identifier) @mixin arguments: (argument_list [(constant) (scope_resolution)] @embeds)))
