def environment():
    return {}
