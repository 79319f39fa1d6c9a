// Command porcupine gives a second opinion on histories of a reentrant lock
// with leases: Porcupine searches the order, and the model is this program's
// own. The file format is described in ../history.h.
//
//	porcupine FILE...
//
// Prints a line for each file that begins with "ok" or "FAILED"; exits with 1 if
// one failed, with 2 if one could not be read or decided.
package main

import (
	"fmt"
	"os"
)

func main() {
	code := 0
	for _, path := range os.Args[1:] {
		file, err := os.Open(path)
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(2)
		}
		locks, err := readHistory(file)
		file.Close()
		if err != nil {
			fmt.Fprintf(os.Stderr, "%s: %v\n", path, err)
			os.Exit(2)
		}
		objections := judge(locks)
		if len(objections) == 0 {
			fmt.Printf("ok %s\n", path)
			continue
		}
		for _, objection := range objections {
			fmt.Printf("FAILED %s: %s\n", path, objection.text)
			if objection.undecided {
				os.Exit(2)
			}
		}
		code = 1
	}
	os.Exit(code)
}
