// What a Go program does about a proxy by default: nothing is set here.
package main

import (
	"fmt"
	"io"
	"net/http"
	"os"
)

func main() {
	answer, err := http.Get(os.Args[1])
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	body, err := io.ReadAll(answer.Body)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Stdout.Write(body)
	if answer.StatusCode != http.StatusOK {
		fmt.Fprintln(os.Stderr, answer.Status)
		os.Exit(1)
	}
}
