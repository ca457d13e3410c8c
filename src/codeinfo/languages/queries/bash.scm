(comment) @comment
(string_content) @string
(raw_string) @string
(heredoc_body) @string

(function_definition name: (word) @name) @function
(command name: (command_name (word) @keyword) argument: (concatenation . (word) @name)) @alias
(variable_assignment name: (variable_name) @name) @variable
