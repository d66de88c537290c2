"""Online migration: conversion of groups, and classic members of consumer groups."""
