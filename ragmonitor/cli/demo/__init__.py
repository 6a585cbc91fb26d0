"""A live RAG application under monitoring, over this project's own documents."""
