package main

import (
	"fmt"
	"os"
	"os/exec"
	"sync"

	"example.org/sorting/words"
)

func main() {
	fmt.Println(words.Sorted(os.Args[1:]))
	var group sync.WaitGroup
	for n := 0; n < 20; n++ {
		group.Add(1)
		go func() {
			defer group.Done()
			if _, err := os.ReadFile("go.mod"); err != nil {
				panic(err)
			}
		}()
	}
	group.Wait()
	out, err := exec.Command("echo", "from", "a", "child").Output()
	fmt.Print(string(out), err, "\n")
}
