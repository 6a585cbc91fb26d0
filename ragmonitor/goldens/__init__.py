"""Golden questions: questions with known answers, made, asked in production, guarded in CI."""
