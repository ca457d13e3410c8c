// Prints what the Go type checker (go/types) says of every name in a module: one line for each use that means something
// defined in the module, "path line column name definitionPath definitionLine", tabs between; a use that means anything
// else ends after the name. Packages from outside that are not installed are empty: what depends on them stays unknown.
//
//	go run benchmarks/go_uses.go MODULE_FOLDER
package main

import (
	"bufio"
	"fmt"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

type loader struct {
	root, module string
	files        *token.FileSet
	known        map[string]*types.Package
	outside      types.Importer
	out          *bufio.Writer
}

func (l *loader) Import(path string) (*types.Package, error) {
	if found := l.known[path]; found != nil {
		return found, nil
	}
	if path == l.module || strings.HasPrefix(path, l.module+"/") {
		return l.check(path, filepath.Join(l.root, strings.TrimPrefix(path, l.module)), false), nil
	}
	found, err := l.outside.Import(path)
	if err != nil || found == nil {
		parts := strings.Split(path, "/")
		found = types.NewPackage(path, parts[len(parts)-1])
		found.MarkComplete()
	}
	l.known[path] = found
	return found, nil
}

func (l *loader) check(path, folder string, tests bool) *types.Package {
	parsed, _ := parser.ParseDir(l.files, folder, func(info os.FileInfo) bool {
		return tests || !strings.HasSuffix(info.Name(), "_test.go")
	}, parser.SkipObjectResolution)
	var first *types.Package
	for name, one := range parsed {
		var listed []*ast.File
		for _, file := range one.Files {
			listed = append(listed, file)
		}
		info := &types.Info{Uses: map[*ast.Ident]types.Object{}}
		config := types.Config{Importer: l, Error: func(error) {}, FakeImportC: true}
		checked, _ := config.Check(path, l.files, listed, info)
		if !strings.HasSuffix(name, "_test") && name != "main" || first == nil {
			first = checked
		}
		if tests {
			for identifier, object := range info.Uses {
				l.print(identifier, object)
			}
		}
	}
	if first == nil {
		first = types.NewPackage(path, filepath.Base(path))
	}
	if !tests {
		l.known[path] = first
	}
	return first
}

func (l *loader) print(identifier *ast.Ident, object types.Object) {
	at := l.files.Position(identifier.Pos())
	place, err := filepath.Rel(l.root, at.Filename)
	if err != nil || identifier.Name == "_" {
		return
	}
	fmt.Fprintf(l.out, "%s\t%d\t%d\t%s", place, at.Line, at.Column, identifier.Name)
	defined := l.files.Position(object.Pos())
	if _, isPackage := object.(*types.PkgName); !isPackage && defined.IsValid() {
		if target, err := filepath.Rel(l.root, defined.Filename); err == nil && !strings.HasPrefix(target, "..") {
			fmt.Fprintf(l.out, "\t%s\t%d", target, defined.Line)
		}
	}
	fmt.Fprintln(l.out)
}

func main() {
	root, _ := filepath.Abs(os.Args[1])
	manifest, err := os.ReadFile(filepath.Join(root, "go.mod"))
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	module := regexp.MustCompile(`(?m)^module\s+(\S+)`).FindSubmatch(manifest)[1]
	files := token.NewFileSet()
	l := &loader{root, string(module), files, map[string]*types.Package{},
		importer.ForCompiler(files, "source", nil), bufio.NewWriter(os.Stdout)}
	defer l.out.Flush()
	filepath.Walk(root, func(folder string, info os.FileInfo, err error) error {
		if err != nil || !info.IsDir() {
			return nil
		}
		if name := info.Name(); folder != root && (strings.HasPrefix(name, ".") || strings.HasPrefix(name, "_") || name == "testdata" || name == "vendor") {
			return filepath.SkipDir
		}
		inside, _ := filepath.Rel(root, folder)
		l.check(strings.TrimSuffix(string(module)+"/"+filepath.ToSlash(inside), "/."), folder, true)
		return nil
	})
}
