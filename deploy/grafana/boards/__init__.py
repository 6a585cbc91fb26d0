"""The dashboards as data: what is asked, how it is drawn, what it is called in two languages."""
