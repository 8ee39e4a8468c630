python3 -c 'import os; f = os.open("@target@/new", os.O_CREAT | os.O_WRONLY); os.write(f, b"x"); os.close(f)'
