"""People's verdicts on judged answers, and what they make of the judged rate.

The judged rate is that of a judge who errs: at a true rate of 4 % a judge that is right about 97 %
of the fine answers reports 6.3 %. People read some of its answers, drawn apart among those that it
found hallucinated and those that it found fine, and say for each kind how many are.
"""
