(comment) @comment
(unary_operator operand: (call target: (identifier) @keyword (arguments [(string) (sigil)] @doc)))
(quoted_content) @string

(call target: (identifier) @keyword (arguments . (alias) @name)) @module
(call target: (identifier) @keyword (arguments . (call target: (identifier) @name))) @function
(call target: (identifier) @keyword (arguments . (identifier) @name)) @function
(call target: (identifier) @keyword (arguments . (binary_operator left: (call target: (identifier) @name)))) @function
(call target: (identifier) @keyword (arguments . (binary_operator left: (identifier) @name))) @function
(unary_operator operand: (call target: (identifier) @keyword
  (arguments . (binary_operator left: [(identifier) @name (call target: (identifier) @name)])))) @type
